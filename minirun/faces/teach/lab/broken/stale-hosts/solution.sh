# sed -i makes a new file with this name; the container has the old one mounted: write into that
sed -i '/^sed -i/d' run.sh
cat >>run.sh <<'END'
sed 's/10.7.0.3/10.7.0.4/' hosts >new
cat new >hosts
END
